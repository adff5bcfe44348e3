"""CLIPSelf's self-distillation: a CLIP tower learns, from its own image embeddings, to recognise regions."""
