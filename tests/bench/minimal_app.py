"""The least that a Textual panel can be, to compare with: a table of eight rows, renewed once a
second.
"""

import random

from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Header


class MinimalApp(App[None]):
    """A header, a table, a footer."""

    def compose(self) -> ComposeResult:
        """Nothing else."""
        yield Header()
        yield DataTable()
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table, and renew it at 1 Hz."""
        table = self.query_one(DataTable)
        self.keys = table.add_columns("GPU", "name", "use", "memory")
        self.rows = [table.add_row(str(i), "minimal-row", "0%", "0.0G") for i in range(8)]
        self.set_interval(1.0, self.renew)

    def renew(self) -> None:
        """New numbers in every row."""
        table = self.query_one(DataTable)
        for row in self.rows:
            table.update_cell(row, self.keys[2], f"{random.randrange(100)}%")
            table.update_cell(row, self.keys[3], f"{random.uniform(1, 80):.1f}G")


if __name__ == "__main__":
    MinimalApp().run()
