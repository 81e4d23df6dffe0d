"""The server as a service of the user's own: launchd's on a Mac, systemd's on Linux."""
