"""A webhook that prints the text of each message: receiver.py PORT."""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Webhook(BaseHTTPRequestHandler):
    """Answers 204, so that kt does not send the message again."""

    def do_POST(self) -> None:
        """Print the text."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(message["text"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print no line for the request."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int, metavar="PORT")
    server = HTTPServer(("127.0.0.1", parser.parse_args().port), Webhook)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()
