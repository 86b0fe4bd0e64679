"""The project's terms as types. Pure: nothing here starts, reads or measures anything."""
