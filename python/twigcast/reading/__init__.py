"""The way from bytes to messages. Nothing here uses the engine.

- ``messages``: messages from files, folders and archives; ``records``: one large document cut into messages
- ``conversion``: messages in other encodings or with entities, as plain UTF-8; ``prolog``: the XML declaration
- ``text``: Python strings as bytes
"""
