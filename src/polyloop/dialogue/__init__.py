"""What is said to models and people beside the work itself: policy texts, questions, the final answer."""
