"""Texts a detector's certificate is made on: prose of several kinds, long enough to be judged, all of them ours."""

from __future__ import annotations

from types import MappingProxyType

_NARRATION = """\
The committee met in the old town hall on a rainy Tuesday evening, and although nobody had expected much of the agenda,
three proposals were passed before supper: a bridge for cyclists, longer opening hours at the library, and a small
grant for the brass band, whose conductor thanked everyone at length and then, without being asked, played a march."""
_REFERENCE = """\
A tide gauge is an instrument that measures the height of the sea relative to a fixed mark on land. Early gauges were
wells with a float and a pen; modern ones send a radar pulse downwards and time its return. Because the land itself
rises and sinks, records of many decades are compared with satellites before anything is said about the climate."""
_DIALOGUE = """\
“You can't be serious,” said Mara, putting down her cup. “I am,” he answered, “and I'd do it again tomorrow.” She looked
at the window, where the first snow of the year was melting on the sill, and wondered how many winters it would take
until someone in this house admitted to being wrong. “Fine,” she said at last. “Then we'll walk. Bring good boots!”"""
_MEASUREMENTS = """\
We heated 12.5 g of the powder to 450 °C for 2 h, cooled it at 3 K/min, and weighed it again: the loss was 8.1 % (n = 5,
s.d. 0.4 %). X-ray patterns of the residue show two phases, of which only one had been reported before (ref. 7). When
the ramp was slower than 1 K/min, the second phase did not appear, which suggests that its growth is limited by heat."""
_NAMES = """\
In São Tomé the painter Zoë Müller met the botanist Łukasz Wiśniewski, who was on his way from Kraków to Curaçao. They
shared a table, a bottle of rosé and an argument about orchids; he drew one on the menu, she corrected its colours. The
menu hangs today in a café near the harbour, and its naïve little sketch is insured for more than the building is."""
_INSTRUCTIONS = """\
To bleed the radiators, switch the pump off first and wait until the water has settled. Then:
1. hold a cloth under the valve and open it a quarter turn with the key;
2. let the air hiss out, and close the valve as soon as water comes;
3. repeat this in every room, starting with the lowest floor.
Afterwards check the pressure: if it has dropped below one bar, fill up slowly, and never while the boiler is hot."""

TEXTS = MappingProxyType(
    {
        name: text.replace("\n", " ") if name != "instructions" else text
        for name, text in {
            "narration": _NARRATION,
            "reference": _REFERENCE,
            "dialogue": _DIALOGUE,
            "measurements": _MEASUREMENTS,
            "names": _NAMES,
            "instructions": _INSTRUCTIONS,
        }.items()
    }
)
EXAMPLE_TEXT = "narration"
