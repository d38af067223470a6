"""Where jobs run: each engine can say what runs, start a job from a plan, and stop it keeping its state."""
