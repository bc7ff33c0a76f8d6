"""The way from bytes to messages. Nothing here uses the engine.

- ``messages``: messages from files, folders and archives; ``records``: one large document cut into messages
- ``conversion``: messages in other encodings or with entities, as plain UTF-8; ``prolog``: the XML declaration
- ``document_types``: DTDs that the user names, entities of HTML; ``repairs``: what is wrong often, on request
- ``text``: Python strings as bytes
"""
