"""F-ViT: detection of any labels on a frozen CLIP tower."""
