"""What a learner builds and plays with: a BERT of your own parts, toys, drawings, the machine."""
