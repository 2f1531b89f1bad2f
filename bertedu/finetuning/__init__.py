"""Fine-tuning: one new output layer on a pre-trained model, for five kinds of task (section 4)."""
