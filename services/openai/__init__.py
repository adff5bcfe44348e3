"""OpenAI's API over the generation engine: requests in, completions and chat out, whole or streamed."""
