"""The model, one idea a file: config, embeddings, attention, encoder, heads, and Bert itself."""
