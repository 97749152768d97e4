"""What a user of Holdfast would drop into shared/jobs."""
