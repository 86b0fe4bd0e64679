"""YAML presets to frozen RunSpecs."""
