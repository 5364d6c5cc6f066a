"""A real PDF, made by hand: each page says a text."""

from __future__ import annotations

from collections.abc import Sequence


def pdf(pages: Sequence[str]) -> bytes:
    """A PDF with a page for each text, whose lines are below each other."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R {fonts} >>"
        lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
        drawn = f"BT /F1 12 Tf 72 720 Td {lines} ET".encode() if text else b""
        objects += [page.encode(), b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn)]
    whole, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, one in enumerate(objects, 1):
        offsets.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(whole))
    return bytes(whole) + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end
