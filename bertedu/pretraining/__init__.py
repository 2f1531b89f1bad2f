"""Pre-training: hide words, pair sentences, pack batches, run the loop."""
