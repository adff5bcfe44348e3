"""BentoML services: one module a model family, over one serving core."""

import os

os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # no network at run time: BentoML would report its usage
