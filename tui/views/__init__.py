"""What both front ends show, without Textual: read models, formats, texts."""
