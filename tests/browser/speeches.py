"""What the engine says to the page's tests."""

from __future__ import annotations

from tests.browser.talking_engine import Speech

CODE = """def add(a, b):
    return a + b"""

RICH = f"""A **short** tour, with `code`, *stress* and [a link](https://example.com/a_b).

### What is new

1. Answers come *while* they are written.
2. Lists have lists:
   - one that is short
   - and one with `code`
3. And they go on.

```python
{CODE}
```

| Model | Size | Tokens/s |
|:--|--:|--:|
| tiny | 135 MB | 412 |
| small | 2.3 GB | 86 |

> What is quoted is set apart.

- [x] done
- [ ] to do
"""

THOUGHT = "Seven times six. Six sevens are forty-two, so that is it."

# What would be dangerous if it were read as HTML, or followed.
HOSTILE = """<script>window.attacked = 1</script>
<img src=x onerror="window.attacked = 2">

<svg onload="window.attacked = 3"></svg> [click](javascript:window.attacked=4)
[data](data:text/html,<script>window.attacked=5</script>) ![pixel](https://evil.example/pixel.png)
[ok"onmouseover="window.attacked=6](https://example.com/"onmouseover="window.attacked=7)
<iframe src="https://evil.example"></iframe> <https://evil.example/x> **<b onclick=x>bold</b>**

```html"><script>window.attacked = 8</script>
<script>window.attacked = 9</script>
```

| <img src=x onerror=window.attacked=10> | b |
|---|---|
| <a href="javascript:window.attacked=11">x</a> | [y](JaVaScRiPt:window.attacked=12) |
"""

LONG = "\n\n".join(f"Paragraph {n} has a few words, as paragraphs have." for n in range(400))

SPEECHES = {
    "Show me everything": Speech(RICH),
    "What is 6 times 7?": Speech("It is **42**.", thought=THOUGHT, pause_s=0.02),
    "Attack the page": Speech(HOSTILE),
    "Talk slowly": Speech(LONG, pause_s=0.05),
    "Talk at length": Speech("\n\n".join([LONG] * 5), pause_s=0.005),
    "Break off": Speech("I was about to", fails="The device has no memory left for this answer."),
}
