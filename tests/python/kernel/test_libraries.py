"""What is changed in libraries for a kernel."""

import pytest


def shown(messages):
    """The data of what was displayed, in its order; updates take the place of what they update."""
    found = {}
    for number, message in enumerate(messages):
        if message["msg_type"] in ("display_data", "execute_result", "update_display_data"):
            content = message["content"]
            found[content.get("transient", {}).get("display_id", number)] = content["data"]
    return list(found.values())


def ran(kernel, code):
    """What a cell displays, and what it prints to stderr."""
    reply, _, messages = kernel.run(code)
    assert reply["status"] == "ok", reply
    errors = "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream" and m["content"]["name"] == "stderr")
    return shown(messages), errors


@pytest.mark.parametrize("chosen", ["before pyplot", "after pyplot"])
def test_a_backend_that_only_draws_shows_figures(kernel, chosen):
    setup = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt"
    if chosen == "after pyplot":
        setup = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.close('all')\n" + setup
    assert ran(kernel, setup) == ([], "")
    # Not before it is asked for, and then once.
    assert ran(kernel, "plt.plot([1, 2]); plt.savefig('saved.png')") == ([], "")
    figures, _ = ran(kernel, "plt.show()")
    assert ["image/png" in data for data in figures] == [True]
    assert ran(kernel, "plt.show()") == ([], "")
    figures, _ = ran(kernel, "fig, ax = plt.subplots(); fig.show()")
    assert ["image/png" in data for data in figures] == [True]
    figures, _ = ran(kernel, "fig")
    assert ["image/png" in data for data in figures] == [True]


def test_a_figure_that_is_the_value_of_a_cell_is_shown_once(kernel):
    figures, _ = ran(kernel, "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1, 2]); fig")
    assert ["image/png" in data for data in figures] == [True]
    # The others of the cell are shown as ever.
    figures, _ = ran(kernel, "other, _ = plt.subplots(); one, _ = plt.subplots(); one")
    assert ["image/png" in data for data in figures] == [True, True]
    assert ran(kernel, "plt.get_fignums()")[0][0]["text/plain"] == "[]"
    # In another format, too.
    figures, _ = ran(kernel, "%config InlineBackend.figure_format = 'svg'\nfig, ax = plt.subplots(); fig")
    assert ["image/svg+xml" in data for data in figures] == [True]


def test_characters_that_no_font_has_cause_one_short_warning(kernel):
    # Of an alphabet that is not written any more.
    code = "import matplotlib.pyplot as plt\nplt.title('\\U00016800\\U00016801\\U00016802'); plt.show()"
    figures, errors = ran(kernel, code)
    assert ["image/png" in data for data in figures] == [True]
    assert errors.count("no font here has some characters") == 1 and errors.count("\n") <= 2 and len(errors) < 500, errors
    assert errors.startswith("himalia_kernel/libraries.py:"), errors
    assert ran(kernel, code.replace("16800", "16803"))[1].count("no font here") == 1


def test_a_font_of_the_system_is_used_for_what_the_chosen_one_lacks(kernel):
    # A font of another name, where systems have their users' fonts.
    code = """
import matplotlib, os
from fontTools.ttLib import TTFont
font = TTFont(f'{matplotlib.get_data_path()}/fonts/ttf/STIXGeneral.ttf')
for record in font['name'].names:
    if record.nameID in (1, 4, 16):
        font['name'].setName('WenQuanYi Micro Hei', record.nameID, record.platformID, record.platEncID, record.langID)
os.makedirs(os.path.expanduser('~/.fonts'))
font.save(os.path.expanduser('~/.fonts/Eastern.ttf'))
import matplotlib.pyplot as plt
from matplotlib import font_manager
plt.rcParams['font.sans-serif'] = ['DejaVu Sans']
found = font_manager.fontManager._find_fonts_by_props(font_manager.FontProperties(family=['sans-serif']))
[os.path.basename(str(getattr(one, 'path', one))).split('.')[0] for one in found]
"""
    assert ran(kernel, code)[0][-1]["text/plain"] == "['DejaVuSans', 'Eastern']"


def test_bars_of_notebooks_end_with_their_last_state(kernel):
    def bars(code):
        return [data["text/plain"] for data in ran(kernel, code)[0]]

    (ended,) = bars("from tqdm.auto import tqdm, trange\nfor _ in tqdm(range(5)): pass")
    assert "100%" in ended and "5/5" in ended
    (stopped,) = bars("bar = tqdm(total=4)\nbar.update(1)\nbar.close()")
    assert "25%" in stopped and "1/4" in stopped
    assert len(bars("for _ in trange(2):\n    for _ in trange(3, leave=False): pass")) == 3


def test_counting_cores_without_sys_says_nothing(kernel):
    code = "import os\nisdir = os.path.isdir\nos.path.isdir = lambda path: path != '/sys/devices/system/cpu' and isdir(path)\n"
    code += "import joblib\nos.path.isdir = isdir\nfrom joblib.externals.loky.backend import context\ncontext.physical_cores_cache"
    found, errors = ran(kernel, code)
    assert (int(found[0]["text/plain"]) > 0, errors) == (True, "")
