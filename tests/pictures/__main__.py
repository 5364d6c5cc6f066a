"""Draw every picture of the documentation anew: `make pictures`."""

from pictures import FOLDER, PICTURES

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
