"""The pages that a browser sees when it comes back from an OAuth provider.

Source: ``nat.front_ends.fastapi.html_snippets``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from enum import Enum

BAD_STATE = "Invalid state. Please restart the authentication process."

_POPUP = """
<!DOCTYPE html>
<html>
<head>
    <title>{title}</title>
    <script>
        (function () {{
            window.history.replaceState(null, "", window.location.pathname);

            window.opener?.postMessage({{ type: '{event}' }}, '*');

            window.close();
        }})();
    </script>
</head>
<body>
    <p>{said} You may now close this window.</p>
</body>
</html>
"""
_BACK = """\
<!DOCTYPE html>
<html>
<head>
    <title>{title}</title>
    <script>
        (function () {{
            var returnTo = null;
            if (returnTo) {{
{go}            }} else {{
                window.history.back();
            }}
        }})();
    </script>
</head>
<body>
    <p>{said} Redirecting&hellip;</p>
</body>
</html>
"""
_GO = "                window.location.replace(returnTo);\n"
_GO_MARKED = """\
                var url = new URL(returnTo);
                url.searchParams.set('oauth_auth_completed', 'true');
                window.location.replace(url.toString());
"""


class Page(Enum):
    """How it went: the page's title, what it tells the window that opened it, what it says."""

    SUCCESS = ("Authentication Complete", "AUTH_SUCCESS", "Authentication complete.")
    CANCELLED = ("Authorization Cancelled", "AUTH_CANCELLED", "Authorization cancelled.")
    ERROR = ("Authentication Error", "AUTH_ERROR", "Authentication failed.")


def page(how: Page, popup: bool) -> str:
    """The page for a window of its own, or for the tab that went to the provider."""
    title, event, said = how.value
    if popup:
        return _POPUP.format(title=title, event=event, said=said)
    go = _GO_MARKED if how is Page.SUCCESS else _GO
    return _BACK.format(title=title, said=said, go=go)
