"""What each command does: asks what must be asked, then calls the session, in a thread where that may block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spectui.session.finding import Choice
from spectui.ui.commands import BY_ID, for_screen, key_word
from spectui.ui.screens.choose import ChooseScreen, Item
from spectui.ui.screens.confirm import ConfirmScreen, TypeScreen
from spectui.ui.screens.help import HelpScreen

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.session.adopting import Adoption
    from spectui.ui.app import SpectuiApp
    from spectui.ui.screens.home import HomeScreen


class Actions:
    def __init__(self, app: SpectuiApp) -> None:
        self.app = app

    @property
    def live(self) -> Any:
        return self.app.live

    def do(self, name: str) -> None:
        if name.startswith("screen_"):
            self.app.open_screen(name.removeprefix("screen_"))
            return
        method = getattr(self, f"do_{name}", None)
        if method is not None:
            method()

    def _home(self) -> HomeScreen:
        from spectui.ui.screens.home import HomeScreen

        return next(screen for screen in self.app.screen_stack if isinstance(screen, HomeScreen))

    # -- flip

    def do_knob_up(self) -> None:
        self.app.in_background("stage", lambda: self.live.stage_step(1))

    def do_knob_down(self) -> None:
        self.app.in_background("stage", lambda: self.live.stage_step(-1))

    def do_drop(self) -> None:
        if self._home().live_again():
            return
        if self.live.notice is not None:
            self.live.notice = None
        elif not self.live.drop():
            self.live.say(self.live.nothing_to_apply or "nothing is staged")

    def do_algorithm(self) -> None:
        from spectui import algorithms

        arm = self.live.focused
        items = [Item(a.name, a.name, a.error or f"{a.title}: {a.fits.partition(':')[0]}") for a in algorithms.every()]

        def chosen(name: str | None) -> None:
            if name:
                self.app.in_background("stage", lambda: self.live.stage_algorithm(name))

        title = f"Algorithm for {arm.letter} (a plug-in's name can be typed)"
        now = arm.algorithm if not arm.staged else arm.staged.plan.algorithm
        self.app.push_screen(
            ChooseScreen(title, items, free="type to search, or a plug-in's name", current=now), chosen
        )

    def do_settings(self) -> None:
        from spectui.ui.ask_settings import ask_settings

        ask_settings(self.app)

    def do_apply(self) -> None:
        staged = self.live.focused.staged
        if nothing := self.live.nothing_to_apply:
            self.live.say(nothing, seconds=5.0)  # it may soon be otherwise
            return
        if self.live.must_adopt:
            self.app.tell("looking at what a relaunch would take over …")
            self.app.in_background("propose", self.live.propose, self._ask_for_url)
            return
        if staged is not None and staged.plan.dangers and not staged.refused:
            lines = [staged.words, *staged.warned]
            keys = (("y", "yes", "apply all the same"),)
            self.app.push_screen(ConfirmScreen("This is known to give wrong text", lines, keys), self._apply_if)
            return
        self._apply_if("yes")

    def _apply_if(self, answer: str | None) -> None:
        if answer == "yes":
            self.app.in_background(f"apply {self.live.focus}", self.live.apply)

    def _ask_for_url(self, proposed: tuple[Adoption, Profile]) -> None:
        """A server that spectui did not start is ended only after its URL was typed, with all that means in sight."""
        self.live.say("")
        adoption = proposed[0]

        def typed(text: str | None) -> None:
            if text is not None:
                self.app.in_background(f"apply {self.live.focus}", lambda: self.live.adopt(proposed, text))

        title = f"spectui did not start this server. To end it and start it with these settings, type {adoption.url}"
        self.app.push_screen(TypeScreen(title, adoption.lines, wanted=adoption.url), typed)

    def do_back(self) -> None:
        self.app.in_background(f"apply {self.live.focus}", self.live.back)

    # -- arms

    def do_focus_arm(self) -> None:
        self.live.switch_focus()

    def do_choose_server(self) -> None:
        self.app.tell("looking for servers …")
        letter = self.live.focus

        def show(choices: list[Choice]) -> None:
            self.live.say("")
            items = [Item(c.name, c.name, f"{c.kind}: {c.detail}") for c in choices]

            def chosen(name: str | None) -> None:
                if name:
                    self.app.in_background("choose", lambda: self.live.choose(letter, name))

            title = f"What is {letter}? A server, a profile to launch, or a stored run"
            self.app.push_screen(ChooseScreen(title, items, free="type to search, or a URL"), chosen)

        self.app.in_background("find", self.live.choices, show)

    # -- measure

    def do_run(self) -> None:
        self._measure(self.live.run, both=False)

    def do_feed(self) -> None:
        self._measure(self.live.feed, both=False)

    def do_compare(self) -> None:
        self._measure(self.live.compare, both=True)

    def _measure(self, begin: Callable[..., str], *, both: bool) -> None:
        question = self.live.flush_question(both)

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.app.in_background("run", lambda: begin(flush=answer))

        if not question:
            self.app.in_background("run", begin)
            return
        keys = (("y", "yes", "flush it"), ("i", "idle", "only if nobody else uses it"), ("n", "no", "never flush"))
        self.app.push_screen(ConfirmScreen("May it be flushed?", [question], keys), answered)

    def do_stop(self) -> None:
        self.app.in_background("stop", self.live.stop)

    def do_workload(self) -> None:
        from spectui.ui.ask_workload import ask_workload

        ask_workload(self.app)

    def do_check(self) -> None:
        """Opens the check of the arm in focus, which begins at once."""
        target = self.live.focused.target
        if target is None or self.live.focused.url is None:
            self.app.tell(f"{self.live.focus} is no running server: o chooses one", "warn")
            return
        self.app.open_screen("check", target=target.server or target.url or target.name)

    # -- keep

    def do_save(self) -> None:
        arm = self.live.focused
        if arm.algorithm in ("", "unknown"):
            self.app.tell(f"{arm.letter}: what it runs is not known yet", "warn")
            return
        suggestion = "-".join(part for part in (arm.name, arm.algorithm.lower()) if part).replace(":", "-")

        def named(name: str | None) -> None:
            if name:
                self.app.in_background("save", lambda: f"saved as {self.live.save_profile(name)}")

        title = f"Save what {arm.letter} runs as a profile named"
        self.app.push_screen(TypeScreen(title, value=suggestion.rpartition("/")[2]), named)

    def do_command_line(self) -> None:
        def write() -> str:
            path = self.live.write_command()
            self.app.parting = path.read_text("utf-8")
            return f"the launch command is in {path}; it is also printed once you leave"

        self.app.in_background("write", write)

    # -- look

    def do_chart(self) -> None:
        self._home().switch_chart()

    def do_log(self) -> None:
        self._home().toggle_log()

    def do_cursor_left(self) -> None:
        self._home().move_cursor(-1)

    def do_cursor_right(self) -> None:
        self._home().move_cursor(1)

    def do_zoom_in(self) -> None:
        self._home().zoom_by(0.5)

    def do_zoom_out(self) -> None:
        self._home().zoom_by(2.0)

    def do_picture(self) -> None:
        from spectui.ui import picture

        try:
            said = f"saved as {picture.save(self.app)}"
            say = getattr(self.app.screen, "say", self.app.tell)  # each screen has a line of its own
            say(said, "good")
        except OSError as error:
            self.app.show_error(error)

    def do_help(self) -> None:
        self.app.push_screen(HelpScreen(for_screen(self.app.where), self.app.keys))

    def do_palette(self) -> None:
        where, screen = self.app.where, self.app.screen
        items = [
            Item(c.id, f"{c.group}: {c.word}", f"{key_word(c, self.app.keys):<8} {c.help}")
            for c in for_screen(where)
            if c.id != "palette"
        ]

        def chosen(name: str | None) -> None:
            if name is None:
                return
            if not BY_ID[name].where or where == "home":
                self.app.action_do(name)
            else:
                self.app.call_later(screen.run_action, name)

        self.app.push_screen(ChooseScreen("Commands", items, digits=False), chosen)
