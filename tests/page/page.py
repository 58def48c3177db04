#!/usr/bin/env python3
"""The page of `scr report` in a browser (headless Chromium): the charts are there and can be read
on a large and a small screen, light and dark; each has words for a screen reader; the console is
empty. With --keep DIRECTORY the screenshots stay there.

usage: page.py [--keep DIRECTORY]
"""

import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCR = ROOT / "target/dist/bin/scr"
CHARTS = 7
LIMIT_SECONDS = 120

# Measures the page in a frame of a screen's width; what it finds becomes the text of the outer one.
MEASURE = """
<iframe id="page" style="border:0" width="%d" height="900" srcdoc="%s"></iframe>
<script>
document.getElementById("page").onload = () => {
  const frame = document.getElementById("page"), page = frame.contentDocument;
  const style = one => frame.contentWindow.getComputedStyle(one);
  const box = one => one.getBoundingClientRect();
  const pictures = [...page.querySelectorAll("svg")];
  const words = [...page.querySelectorAll("svg text")].filter(one => one.textContent);
  const outside = words.filter(one => {
    const own = box(one), all = box(one.closest("svg"));
    return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 2;
  });
  const named = one => one.getAttribute("aria-labelledby").split(" ").every(
    id => page.getElementById(id) && page.getElementById(id).textContent.length > 5);
  const found = {
    pictures: pictures.filter(one => box(one).height > 40 && box(one).width > 250).length,
    marks: pictures.map(one => one.querySelectorAll("circle, rect, polyline").length),
    named: pictures.filter(named).length,
    smallest: Math.min(...words.map(one => box(one).height)),
    outside: outside.map(one => one.textContent),
    too_wide: page.documentElement.scrollWidth - frame.clientWidth,
    columns: new Set(pictures.map(one => Math.round(box(one).left))).size,
    reached: [...page.querySelectorAll("summary, [tabindex]")].length,
    back: style(page.body).backgroundColor, text: style(page.body).color,
    drawn: [...new Set([...page.querySelectorAll(".dot, .bar, .line")].map(
      one => style(one).fill == "none" ? style(one).stroke : style(one).fill))],
  };
  document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
};
</script>
"""


def browse(folder, page, *options):
    """Opens a file; returns what is on standard output, and the lines of the console."""
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--enable-logging=stderr", f"--user-data-dir={folder}/profile", *options,
             page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def luminance(colour):
    """Of `rgb(r, g, b)`, as WCAG has it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
              for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def write_log(prefix):
    """The log of three runs; each goes on after the death of the one before."""
    (prefix / ".scr").mkdir(parents=True)
    lines = []

    def event(minute, text):
        lines.append(f"2027-01-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00: "
                     f"user=me, jobid=7, host=n1, event={text}\n")

    dataset = 0
    for run in range(3):
        begin = run * 600
        event(begin, 'START, note="64 ranks, 8 nodes, /p"')
        if run:
            event(begin, f'OFFERED, dset={dataset}, name="checkpoint {dataset}", files=9, bytes=9')
        event(begin, "STARTED, secs=2.000000")
        for minute in range(begin + 30, begin + 600, 30):
            dataset += 1
            size = 'files=64, bytes=%d' % (64 << 30)
            name = f'dset={dataset}, name="checkpoint {dataset}"'
            event(minute, f"SEALED, {name}, secs={4 + dataset % 3}.5, {size}")
            event(minute, f"CHECKPOINT_END, {name}, secs={12 + dataset % 5}.0")
            if dataset % 4 == 0:
                event(minute + 2, f"FLUSH_END, {name}, secs=110.0, {size}")
    reason = "several ranks write it, and a program that is started by one of them, too"
    passed = 'PASSED, dset=0, name="run.log", files=3, bytes=9000000000'
    event(begin + 599, f'{passed}, note="{reason}"')
    for node in range(8):
        seconds = 60 if node == 5 else 20 + node
        moved = f'secs={seconds}.0, files=0, bytes={160 << 30}, note="n{node}"'
        event(begin + 599, f"NODE_SEAL, {moved}")
        event(begin + 599, f"NODE_FLUSH, {moved.replace('secs=', 'secs=5')}")
    event(begin + 599, "END, secs=9.0")
    (prefix / ".scr/log").write_text("".join(lines))


def check(folder, page, width, dark, keep):
    """Looks at the page on a screen; returns what is wrong."""
    mode = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    frame = folder / "frame.html"
    frame.write_text(MEASURE % (width, html.escape(page.read_text())))
    out, console = browse(folder, frame, mode, "--window-size=1400,1000", "--dump-dom")
    found = json.loads(html.unescape(re.search(r"<pre>(.*)</pre>", out, re.S).group(1)))
    picture = keep / f"report-{width}-{'dark' if dark else 'light'}.png"
    _, more = browse(folder, page, mode, f"--window-size={max(width, 500)},1600",
                     f"--screenshot={picture}")
    wrong = [f"the console says {line}" for line in console + more]
    asked = [
        (found["pictures"] == CHARTS, "charts are missing or too small"),
        (min(found["marks"]) > 0, "a chart is empty"),
        (found["named"] == CHARTS, "a chart has no words for a screen reader"),
        (found["smallest"] >= 11, "letters are too small"),
        (not found["outside"], "words leave their chart"),
        (found["too_wide"] <= 0, "the page is wider than the screen"),
        (found["columns"] == (1 if width < 500 else 3), "charts are not side by side as they fit"),
        (found["reached"] >= 8, "tables cannot be reached by keyboard"),
        ((luminance(found["back"]) < 0.1) == dark, "the page is not of the screen's kind"),
        (contrast(found["back"], found["text"]) >= 7, "text is hard to read"),
        (min(contrast(found["back"], one) for one in found["drawn"]) >= 3, "marks are faint"),
        (picture.stat().st_size > 20000, "the screenshot is empty"),
    ]
    return wrong + [f"{words}: {found}" for right, words in asked if not right]


def main(words):
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        keep = pathlib.Path(words[1]).resolve() if words[:1] == ["--keep"] else folder
        write_log(folder / "prefix")
        page = folder / "report.html"
        subprocess.run([SCR, "report", folder / "prefix", "--html", page], check=True,
                       stdout=subprocess.DEVNULL)
        screens = [(width, dark) for width in (1280, 390) for dark in (False, True)]
        for width, dark in screens:
            wrong = check(folder, page, width, dark, keep)
            print(f"{'FAIL' if wrong else 'ok  '} {width} pixels, {'dark' if dark else 'light'}")
            for line in wrong:
                print(f"     {line}")
            failed += bool(wrong)
    print(f"{len(screens) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
