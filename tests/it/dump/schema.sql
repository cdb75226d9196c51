CREATE DATABASE shop;
USE shop;
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  email VARCHAR(100) DEFAULT NULL,
  born DATE,
  joined TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  balance DECIMAL(12,2) NOT NULL DEFAULT 0.00,
  kind ENUM('private','firm') NOT NULL DEFAULT 'private',
  flags SET('a','b','c') DEFAULT NULL,
  note TEXT,
  picture BLOB,
  extra JSON,
  UNIQUE KEY by_email (email),
  KEY by_name (name, born)
) COMMENT='who buys';
CREATE TABLE bare (a INT, b DOUBLE, c BIT(5), d TIME(3), e YEAR, f BINARY(3));
INSERT INTO customers (name, email, born, joined, balance, kind, flags, note, picture, extra) VALUES
 ('Zoë O''Neil', 'zoe@example.com', '1990-02-28', '2024-01-02 03:04:05', 12.34, 'firm', 'a,c', 'line\nbreak', x'00FF10', '{"a": [1, 2]}'),
 ('名前', NULL, NULL, '2024-01-02 03:04:06', -0.01, 'private', NULL, NULL, NULL, NULL),
 ('emoji 😀', 'e@example.com', '2000-01-01', '2024-01-02 03:04:07', 9999999999.99, 'private', '', '', '', '[]');
INSERT INTO bare VALUES (1, 1.5e300, b'10101', '-12:34:56.789', 2024, 'ab'), (NULL, NULL, NULL, NULL, NULL, NULL), (1, 0.1, 0, '00:00:00', 1999, 'abc');
