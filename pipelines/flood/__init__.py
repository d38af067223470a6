"""Denial of service: floods of refused log-ins, found in the logs of a web server."""
