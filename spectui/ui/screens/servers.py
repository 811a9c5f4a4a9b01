"""Servers of this node in one list, found and managed: start, watch, stop, take over, put on an arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from spectui.ui.screens import page, serving_jobs
from spectui.ui.screens.jobs import JOBS, Job
from spectui.ui.screens.sentences import many
from spectui.ui.screens.servers_view import COLUMNS, ServerRow, adoption_rows, cells, details
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.rows import Item, RowList


class ServersScreen(page.Page):
    NAME = "servers"
    EVERY_S = 5.0
    BINDINGS: ClassVar[list[Any]] = page.bindings("servers")

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._adoption: Any = None
        self._launched: Job | None = None
        """Its server comes under the cursor as soon as it is in the list."""

    def read(self) -> tuple[ServerRow, ...]:
        from spectui.ui.screens.servers_data import read_servers

        return read_servers(quiet=self._measured())

    def _measured(self) -> frozenset[str]:
        """Addresses that a run is measuring now: nothing is asked of them."""
        measuring = getattr(self.live, "measuring", None)
        letters = measuring.measured_letters() if measuring is not None else ()
        return frozenset(str(self.live.arms[letter].url) for letter in letters if letter in self.live.arms)

    def title_words(self) -> str:
        rows: Sequence[ServerRow] = self.data
        mine = sum(1 for row in rows if row.record is not None)
        return f"{many(len(rows), 'server')} on this node, {mine} of them started by spectui · {self.read_age()}"

    def status(self) -> tuple[str, str]:
        for row in self.data:
            if row.state is not None and row.state.failure is not None:
                return f"{row.name} failed: {row.state.failure.cause}; l shows the log, x clears it away", "bad"
        if any(row.leftover for row in self.data):
            return "a server that is gone left processes behind: e ends them", "warn"
        return "enter puts a server on an arm; n starts one from a profile", ""

    def draw(self) -> None:
        rows: Sequence[ServerRow] = self.data
        empty = self.spoken("no server on this node: n starts one from a profile, or name a URL on the home screen")
        self.rows.show(COLUMNS, [Item(row.key, cells(row, self._arm_of(row))) for row in rows], empty=empty)
        began = self._launched.began if self._launched is not None else None
        fresh = next((row for row in rows if began and row.record is not None and row.record.when >= began), None)
        if fresh is not None:
            self._launched = None
            self.rows.go_to(fresh.key)
        self._details()

    def _arm_of(self, row: ServerRow) -> str:
        arms = getattr(self.live, "arms", {})
        return "".join(letter for letter, arm in arms.items() if getattr(arm, "url", None) == row.url)

    @property
    def here(self) -> ServerRow | None:
        item = self.rows.item
        return next((row for row in self.data or () if item is not None and row.key == item.key), None)

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details()
        self._frame()

    def tick(self) -> None:
        super().tick()
        if self.is_current and self.data is not None:
            self._details()

    def _details(self) -> None:
        row = self.here
        jobs = [*JOBS.of("start"), *JOBS.of("stop"), *JOBS.of("leftovers")]
        shown = [job for job in jobs if job.worth_showing][-3:]
        proposed = tuple(self._adoption.lines) if self._adoption is not None else ()
        self.details.show(lambda width: [*adoption_rows(proposed, width), *details(row, shown, width)])

    # -- keys

    def allowed(self, command: str) -> bool:
        row = self.here
        if command in ("open", "put_a", "put_b", "server_log"):
            return row is not None and not row.leftover
        if command == "server_stop":
            return row is not None and row.record is not None
        if command == "server_adopt":
            return row is not None and row.record is None and not row.leftover
        if command == "server_leftovers":
            return row is not None and (row.leftover or bool(row.record and row.state and not row.state.running))
        return True

    def action_open(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.ask_arm(self.here.target)

    def action_put_a(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.put_on_arm("A", self.here.target)

    def action_put_b(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.put_on_arm("B", self.here.target)

    def action_server_start(self) -> None:
        def launched(job: Job) -> None:
            self._launched = job

        serving_jobs.pick_and_launch(self, launched)

    def action_server_stop(self) -> None:
        row = self.here
        if row is None or row.record is None:
            self.say("spectui ends only servers that it started; others are ended where they were started", "warn")
            return
        name = row.record.name
        text = f"stop {name}? At most about 20 s for requests in flight, then it is ended. y or n"
        self.ask(Question(text, lambda key: self._stop(name) if key == "y" else None, letters="yn"))

    def _stop(self, name: str) -> None:
        serving_jobs.stop(name)
        self._details()
        self._follow("stop", name)

    def _follow(self, kind: str, name: str) -> None:
        """Says how the job ended, when it has."""
        job = JOBS.find(kind, name)

        def look() -> None:
            if job is not None and job.over:
                timer.stop()
                self.say(job.fault or str(job.result or f"{name}: done"), "bad" if job.fault else "good")
                self.reread()

        timer = self.set_interval(0.5, look)

    def action_server_leftovers(self) -> None:
        row = self.here
        if row is None or not self.allowed("server_leftovers"):
            self.say("there are no left-overs under the cursor", "dim")
            return
        record = row.record
        if record is None:
            pids = ", ".join(str(pid) for pid in (row.found.pids if row.found else ()))
            self.say(
                f"spectui has no record of these (pids {pids}), so it cannot prove whose they are: end them yourself",
                "warn",
            )
            return
        text = f"end what {record.name} left behind? y or n"
        self.ask(Question(text, lambda key: self._end_leftovers(record.name) if key == "y" else None, letters="yn"))

    def _end_leftovers(self, name: str) -> None:
        serving_jobs.stop(name, leftovers=True)
        self._follow("stop", name)

    def action_server_adopt(self) -> None:
        row = self.here
        if row is None or row.found is None or row.record is not None or row.leftover:
            self.say("only a found server that spectui did not start can be taken over", "dim")
            return
        url = row.found.url
        job = serving_jobs.propose(
            url, key=getattr(self.live, "key", None), admin_key=getattr(self.live, "admin_key", None)
        )
        self.say(f"looking at what taking over {url} would change …", "dim")

        def look() -> None:
            if job.over:
                timer.stop()
                self._proposed(job)

        timer = self.set_interval(0.2, look)

    def _proposed(self, job: Job) -> None:
        if job.fault:
            self.say(job.fault, "bad", 30)
            return
        self._adoption = job.result
        self._details()
        text = f"taking over ends it and starts it again, as shown above: type {job.result.url} to do it"
        self.ask(Question(text, self._adopt, expected=job.result.url, left=self._adoption_left))

    def _adoption_left(self) -> None:
        self._adoption = None
        self._details()

    def _adopt(self, typed: str) -> None:
        adoption, self._adoption = self._adoption, None
        serving_jobs.adopt(adoption, typed)
        self._details()
        self._follow("start", adoption.url)

    def action_server_log(self) -> None:
        from spectui.ui.screens.log import LogScreen

        row = self.here
        if row is None or row.record is None:
            self.say("only logs of servers that spectui started can be read", "warn")
            return
        self.app.push_screen(LogScreen(self.live, path=row.record.log_path, name=row.record.name))
