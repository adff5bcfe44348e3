"""The front desk: one small module per command-line verb over models, export, services and the client."""

# Nothing is imported here: BentoML tries the name of the bento, `pressroom`, as a module first, and whatever that
# brought in would be served instead of the bento's own code.
