"""Text generation with continuous batching: slots over one cache, one step for all running sequences."""
