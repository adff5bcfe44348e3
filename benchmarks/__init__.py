"""Numbers about the served system: accuracy through the endpoint, and speed beside bare onnxruntime."""
