"""Chat templates of our own, in the forms that models come with."""

from __future__ import annotations

# Any roles in any order; no tools, no thoughts.
CHATML = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

# Begins with the beginning token itself, so that tokenizing must not put a second one before it.
CHATML_WITH_BEGINNING = "{{ bos_token }}" + CHATML

# Tools in the system turn, calls as JSON between tags, thoughts kept out of earlier turns.
CHATML_WITH_TOOLS = r"""
{%- if tools -%}
  {{- '<|im_start|>system\n' -}}
  {%- if messages and messages[0].role == 'system' -%}
    {{- messages[0].content + '\n\n' -}}
  {%- endif -%}
  {{- 'These functions may be called:\n<tools>\n' -}}
  {%- for tool in tools -%}
    {{- tool | tojson + '\n' -}}
  {%- endfor -%}
  {{- '</tools>\nTo call one, write its name and arguments as JSON:\n' -}}
  {{- '<tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call><|im_end|>\n' -}}
{%- elif messages and messages[0].role == 'system' -%}
  {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}
      {{- '<|im_start|>user' -}}
    {%- endif -%}
    {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' -}}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}
      {{- '<|im_end|>\n' -}}
    {%- endif -%}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if message.content -%}
      {{- message.content.split('</think>')[-1].lstrip('\n') -}}
    {%- endif -%}
    {%- for tool_call in message.tool_calls or [] -%}
      {%- if message.content or not loop.first -%}
        {{- '\n' -}}
      {%- endif -%}
      {%- if tool_call.function -%}
        {%- set tool_call = tool_call.function -%}
      {%- endif -%}
      {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' -}}
      {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson -}}
      {{- '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif message.role != 'system' or not loop.first -%}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
  {%- if enable_thinking is defined and enable_thinking is false -%}
    {{- '<think>\n\n</think>\n\n' -}}
  {%- endif -%}
{%- endif -%}
"""

# No system role, and turns that must alternate: what it refuses is the client's mistake.
TURNS = """\
{{- bos_token -}}
{%- set first = namespace(text='') -%}
{%- if messages[0].role == 'system' -%}
{%- set first.text = messages[0].content + '\\n\\n' -%}
{%- set messages = messages[1:] -%}
{%- endif -%}
{%- for message in messages -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('The turns of user and assistant must alternate.') }}
{%- endif -%}
<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}
{% if loop.first -%}{{ first.text }}{%- endif -%}
{{ message.content | trim }}<end_of_turn>
{% endfor -%}
{%- if add_generation_prompt -%}
<start_of_turn>model
{% endif -%}
"""
