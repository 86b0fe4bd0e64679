"""Parts of the launch form: its fields, its list of presets."""
