"""A minimal RTSP server (RFC 2326) for tests: hands on the RTP packets that ffmpeg makes, over the same TCP link."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import subprocess
import threading
import time
from pathlib import Path


class RtspServer(socketserver.ThreadingTCPServer):
    """Serves a looped video to any client at rtsp://127.0.0.1:PORT/... until it is closed."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, ffmpeg: str, video: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Session)
        self.asked: list[str] = []
        self.packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.packets.bind(("127.0.0.1", 0))
        self.packets.settimeout(0.5)
        description = video.with_suffix(".sdp")
        target = f"rtp://127.0.0.1:{self.packets.getsockname()[1]}"
        # MPEG-4 part 2: its packets need no tables beyond what the description says, and it is quick to encode.
        command = f"{ffmpeg} -loglevel quiet -re -stream_loop -1 -i {video} -an -c:v mpeg4 -q:v 2 -g 5 -f rtp"
        self.sender = subprocess.Popen([*command.split(), "-sdp_file", str(description), target])
        while not description.exists() or "m=video" not in description.read_text():
            time.sleep(0.05)
        lines = [line for line in description.read_text().splitlines() if not line.startswith("SDP:")]
        self.description = "\r\n".join([*lines, "a=control:streamid=0", ""])
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self.sender.kill()
        self.sender.wait()
        self.shutdown()
        self.server_close()
        self.packets.close()


class _Session(socketserver.StreamRequestHandler):
    server: RtspServer

    def handle(self) -> None:
        while request := self._request():
            method, number = request
            self.server.asked.append(method)
            extra, body = "", ""
            if method == "OPTIONS":
                extra = "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n"
            elif method == "DESCRIBE":
                body = self.server.description
                extra = f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n"
            elif method == "SETUP":
                extra = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n"
            answer = f"RTSP/1.0 200 OK\r\nCSeq: {number}\r\n{extra}\r\n{body}"
            self.wfile.write(answer.encode())
            if method == "PLAY":
                self._play()
                return

    def _request(self) -> tuple[str, str] | None:
        first = self.rfile.readline().decode().split()
        number = ""
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            if name.lower() == "cseq":
                number = value.strip()
        return (first[0], number) if first else None

    def _play(self) -> None:
        with contextlib.suppress(OSError):
            while self.server.sender.poll() is None:
                with contextlib.suppress(TimeoutError):
                    packet = self.server.packets.recv(65536)
                    self.wfile.write(b"$\0" + struct.pack(">H", len(packet)) + packet)
