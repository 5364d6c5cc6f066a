"""Draw every picture of the documentation anew: `make pictures`."""

from fakes.chromium import find_chromium

from pictures import FOLDER, PICTURES
from pictures.screens import SCREENS, take_screens

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    if find_chromium():
        take_screens(FOLDER)
    else:
        print(f"{', '.join(SCREENS)} stay as they are: there is no Chromium here, or no Node with what drives it")
