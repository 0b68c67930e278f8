"""The differences between the mock and the real Hyperforge that are known, each with its reason."""

from __future__ import annotations

from known import Known

KNOWN = (
    Known(
        r"^ws scripted logins: ",
        [r"-login by https: 302$", r"\+login by http: 302$"],
        "the mock's own provider speaks HTTP; Hyperforge refuses to show such a login",
    ),
    Known(
        r"^ws questions: bad: what is no number$",
        [r"[-+]a: 4 error "],
        "the real server answers NaN with NaN, which is no JSON; the mock writes null",
    ),
    Known(
        r"^http paths: a slash too many$",
        [r"-vary: Origin$"],
        "the router redirects inside the CORS layer, which the mock has not",
    ),
    Known(
        r"^http bodies: headers: an origin$",
        [r"-access-control-allow-credentials: true$"],
        "the mock has no CORS but its vary header",
    ),
)
