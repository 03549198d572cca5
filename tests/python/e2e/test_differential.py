"""The same script through jupyter_server and through Himalia: equal but for ids and times."""

import pytest
import transcript


@pytest.fixture(scope="module")
def expected(jupyter):
    """What jupyter_server and plain ipykernel say, in the v1 framing."""
    return transcript.take(jupyter, "v1")


@pytest.mark.parametrize("framing", ["v1", "legacy"])
def test_transcripts_are_equal(shared, expected, framing):
    found = transcript.take(shared, framing)
    assert found.keys() == expected.keys()
    for channel, lines in expected.items():
        for index, (mine, theirs) in enumerate(zip(found[channel], lines)):
            assert mine == theirs, f"{channel} message {index}"
        assert len(found[channel]) == len(lines), channel
