"""The stages of a closed run as a Locust load shape."""

from __future__ import annotations

from locust import LoadTestShape

from loadgen.pacing import Profile, users_wanted


class StagedShape(LoadTestShape):
    """As many users as ``profile`` says; ends with it, or when ``run_time_s`` is over."""

    def __init__(self, profile: Profile, run_time_s: float | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Locust
        self.profile = profile
        self.run_time_s = run_time_s

    def tick(self) -> tuple[int, float] | None:
        """Users wanted, and how many a second to add or to stop; None at the end."""
        at_s = self.get_run_time()  # type: ignore[no-untyped-call]  # Locust
        users = users_wanted(self.profile, at_s, self.run_time_s)
        return None if users is None else (users, max(1.0, self.profile.peak))
