"""The page stands alone: no network, no script, and every picture is seen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from semistream.experiments.make import Made, MakeConfig, make

pytest.importorskip("matplotlib", reason="the figures are drawn by matplotlib, of the extra 'figures'")

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ONLY = ("skewed/fig05a", "skewed/fig07", "skewed/fig09f", "hybridjoin/fig08")
# Run in a copy of the page, which has no script of its own.
_LOOK = """
<script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("figure")].map(figure => {
    const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
    const drawn = [...svg.querySelectorAll("path, use, text")].filter(each => {
      const size = each.getBoundingClientRect();
      return size.width > 0 || size.height > 0;
    });
    return {width: box.width, height: box.height, drawn: drawn.length, shown: getComputedStyle(svg).visibility};
  });
  const found = document.createElement("pre");
  found.id = "seen";
  found.textContent = JSON.stringify(seen);
  document.body.append(found);
});
</script></body>
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp("figures")
    return make(MakeConfig(experiments=EXPERIMENTS, out=out, size="tiny", only=ONLY, processes=1))


def test_it_has_every_figure_with_its_claims_and_files(made: Made) -> None:
    text = made.page.read_text()
    assert len(made.shown) == len(ONLY)
    for shown in made.shown:
        figure = shown.figure
        assert f'id="{figure.id.replace("/", "-")}"' in text
        for judged in shown.judged:
            assert judged.verdict.grade.value in text
        for kind in ("csv", "svg", "png"):
            assert f'href="{figure.id}.{kind}"' in text
            assert (made.page.parent / f"{figure.id}.{kind}").exists()
    assert text.count("<svg") == len(ONLY)


def test_it_asks_nobody_for_anything(made: Made) -> None:
    text = made.page.read_text()
    assert "<script" not in text
    loaded = re.findall(r'(?:src|xlink:href|href)="([^"#][^"]*)"', text)
    assert not [link for link in loaded if "://" in link]


def test_every_picture_is_visible_in_a_browser(made: Made, tmp_path: Path) -> None:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser is installed ({', '.join(BROWSERS)})")
    page = tmp_path / "page.html"
    page.write_text(made.page.read_text().replace("</body>", _LOOK))
    ran = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    match = re.search(r'<pre id="seen">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert match, ran.stderr[-2000:]
    seen = json.loads(match.group(1))
    assert len(seen) == len(ONLY)
    for picture in seen:
        assert picture["width"] > 300, seen
        assert picture["height"] > 100, seen
        assert picture["drawn"] > 20, seen
        assert picture["shown"] == "visible", seen
