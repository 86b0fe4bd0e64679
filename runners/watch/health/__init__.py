"""How well a run goes while it goes on: evidence, judgement, and when to say it."""
