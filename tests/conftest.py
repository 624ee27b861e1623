"""Settings for every test: one BLAS thread a worker, no display, fixed Hypothesis seeds."""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings  # noqa: E402

settings.register_profile("aimtheory", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("aimtheory")
