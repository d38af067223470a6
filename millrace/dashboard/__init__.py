"""The live page: what runs through the patterns now, in a browser.

One thread reads Kafka for all browsers (`reader`) into figures of bounded size (`board`). A second thread looks at what
is not in Kafka: lag, jobs, verdicts (`surroundings`). `app` serves the page and its stream of events. A use may declare
what it shows (`view`). The page, in `page/`, is plain ES modules and names no use.
"""
