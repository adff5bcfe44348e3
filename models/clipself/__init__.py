"""CLIPSelf: CLIP towers whose dense features recognise regions (Wu et al., ICLR 2024)."""
