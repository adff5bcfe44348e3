"""What every forecaster shares: frequencies, calendar marks, scaling, and the raw -> tensor -> raw pipeline."""
