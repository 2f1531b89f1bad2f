"""The Korean edition: what is written, whether it is in step, and what is built of it."""
