"""Reads bytes into messages. Nothing here uses the engine.

- ``messages``: messages from files, folders and archives; ``unpacking``: compressed files; ``streams``: the least that
  a source of bytes has to offer
- ``options``: how messages are read; ``preparation``: applies them to a message
- ``records``: one large document cut into messages; ``splits``: the same document shared among readers
- ``conversion``: messages in other encodings or with entities, as plain UTF-8; ``prolog``: the XML declaration
- ``document_types``, ``external_dtds``: DTDs that the user names, and the entities of HTML
- ``repairs``: frequent faults, mended on request; ``repair_counts``: how many there were
- ``text``: Python strings as bytes; ``dates``: dates and times as messages write them
"""
