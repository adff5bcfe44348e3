"""The Open Inference Protocol v2: tensors in and out over REST (JSON and binary) and gRPC."""
