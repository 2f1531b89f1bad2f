"""Text: where it comes from, how it is cut into documents and sentences, and into word pieces."""
