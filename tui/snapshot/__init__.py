"""Everything a front end shows of a place at one moment, below the panel and the agent."""
