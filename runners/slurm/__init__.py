"""What Slurm's commands are asked, and what they answer."""
