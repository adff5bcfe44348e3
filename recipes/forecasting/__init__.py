"""Train a forecaster on a csv in the format of the ETT files, on a CPU, in minutes.

    python -m recipes.forecasting recipes/forecasting/itransformer.toml --out out/itransformer

itransformer.toml, card.toml          the papers' ETTh1 settings, look-back 96, horizon 96
lift_itransformer.toml, lift_card.toml  LIFT around a trained checkpoint, backbone tuned along or frozen
arm.toml                              ARM with its own encoder and decoder
"""
