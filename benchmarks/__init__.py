"""bertedu side by side with Hugging Face `transformers`: the same weights, batches, process."""
