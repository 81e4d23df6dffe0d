#!/bin/sh
# A whole answer, then the same one as a stream.
# sh curl.sh, or sh curl.sh MODEL with a name from `maxi-mlx list`
set -eu
url="http://127.0.0.1:11434/v1/chat/completions"
model="${1:-SmolLM2-135M-Instruct}"
messages='[{"role": "user", "content": "What is the capital of France?"}]'
limits='"max_tokens": 50, "temperature": 0'

curl -sS --fail-with-body "$url" -d "{\"model\": \"$model\", \"messages\": $messages, $limits}"
echo
curl -sSN --fail-with-body "$url" \
  -d "{\"model\": \"$model\", \"messages\": $messages, $limits, \"stream\": true}"
