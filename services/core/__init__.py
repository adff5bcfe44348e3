"""The serving core every family shares: batching, runtimes, errors, limits, metrics, protocols, life cycle."""
