"""What a learner builds and plays with: a BERT of their own parts, toys, drawings, the machine."""
